# Completion of tidegate for bash 4.4 or later: source <(tidegate completions bash)
_tidegate() {
    local rest=$COMP_LINE words=() current=-1 fixed= i part
    # bash splits words at the characters of COMP_WORDBREAKS, ":" and "=" among them: s3://bucket is three words. Join
    # words that are not apart in the line. bash replaces only what follows the last break, and leaves the rest, `fixed`.
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        part=${COMP_WORDS[i]}
        if ((i > 0)) && [[ $rest != [[:space:]]* && ($part == [:=]* || ${COMP_WORDS[i - 1]} == *[:=]) ]]; then
            ((i == COMP_CWORD)) && fixed=${words[-1]}
            words[-1]+=$part
        else
            words+=("$part")
        fi
        rest=${rest#"${rest%%[![:space:]]*}"}
        rest=${rest#"$part"}
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
