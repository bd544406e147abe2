#compdef tidegate
# Completion of tidegate for zsh: source <(tidegate completions zsh) after compinit, or a file _tidegate in $fpath.
_tidegate() {
    local -a open closed open_shown closed_shown
    local line value shown
    for line in "${(@f)$(tidegate complete zsh --index $((CURRENT - 1)) -- "${words[@]}" 2>/dev/null </dev/null)}"; do
        value=${line%%$'\t'*}
        [[ -n $value ]] || continue
        shown=$value
        [[ $line == *$'\t'* ]] && shown="$value  -- ${line#*$'\t'}"
        if [[ $value == *[/=:] ]]; then
            open+=("$value")
            open_shown+=("$shown")
        else
            closed+=("$value")
            closed_shown+=("$shown")
        fi
    done
    (( $#open )) && compadd -V places -S '' -d open_shown -a open
    (( $#closed )) && compadd -V values -d closed_shown -a closed
}
if [[ ${funcstack[1]} == _tidegate ]]; then
    _tidegate "$@"
else
    compdef _tidegate tidegate
fi
