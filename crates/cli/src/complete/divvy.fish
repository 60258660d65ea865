# Completions of divvy for fish. They ask divvy, and divvy asks its server for names.
function __divvy_complete
    # A failure means that a file is wanted.
    if set -l found (command divvy complete-words fish (commandline -opc) (commandline -ct) 2>/dev/null)
        string join \n -- $found
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c divvy -f -a '(__divvy_complete)'
