# Completion of tidegate for bash 4.4 or later: source <(tidegate completions bash)
_tidegate() {
    local rest=$COMP_LINE words=() current=-1 fixed= i part typed joined
    # bash splits words at the characters of COMP_WORDBREAKS, ":" and "=" among them: s3://bucket is three words. Join
    # words that are not apart in the line. bash replaces only what follows the last break, and leaves the rest, `fixed`.
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        part=${COMP_WORDS[i]}
        joined=
        if ((i > 0)) && [[ $rest != [[:space:]]* && ($part == [:=]* || ${COMP_WORDS[i - 1]} == *[:=]) ]]; then
            joined=1
        fi
        rest=${rest#"${rest%%[![:space:]]*}"}
        typed=$part
        if ((i == COMP_CWORD)); then
            # The word that is completed ends at the cursor: a quote behind it closes nothing yet.
            typed=${part:0:COMP_POINT - ${#COMP_LINE} + ${#rest}}
        fi
        rest=${rest#"$part"}
        if [[ ! $joined ]]; then
            words+=("$typed")
        elif ((${#words[@]} - 1 != current)); then
            ((i == COMP_CWORD)) && fixed=${words[-1]}
            words[-1]+=$typed
        fi
        if ((i == COMP_CWORD)); then
            current=$((${#words[@]} - 1))
            [[ $part == [:=]* ]] && fixed+=$part
        fi
    done
    mapfile -t COMPREPLY < <(tidegate complete bash --index "$current" --fixed="$fixed" -- "${words[@]}" 2>/dev/null </dev/null)
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[/=:] ]]; then
        compopt -o nospace
    fi
}
complete -o nosort -F _tidegate tidegate
