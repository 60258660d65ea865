# Completions of divvy for bash. They ask divvy, and divvy asks its server for names.
_divvy() {
    local found word
    COMPREPLY=()
    # A failure means that a file is wanted, which bash knows best.
    found=$("$1" complete-words bash "$COMP_LINE" "$COMP_POINT" 2>/dev/null) || return 0
    compopt +o default 2>/dev/null
    while IFS=$'\t' read -r word _; do
        [[ -n $word ]] && COMPREPLY+=("$word")
    done <<<"$found"
    return 0
}
complete -o default -F _divvy divvy
