#compdef divvy
# Completions of divvy for zsh. They ask divvy, and divvy asks its server for names.
_divvy() {
    local found line
    local -a names
    # A failure means that a file is wanted.
    if ! found=$("${words[1]}" complete-words zsh "${(@Q)words[1,CURRENT]}" 2>/dev/null); then
        _files
        return
    fi
    for line in "${(@f)found}"; do
        [[ -n $line ]] && names+=("${line%%$'\t'*}")
    done
    compadd -a names
}
if [[ ${funcstack[1]} == _divvy ]]; then
    _divvy "$@"
else
    compdef _divvy divvy
fi
