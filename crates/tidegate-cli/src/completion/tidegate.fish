# Completion of tidegate for fish: tidegate completions fish | source
function __tidegate_complete
    set --local words (commandline --current-process --tokenize --cut-at-cursor)
    tidegate complete fish --index (count $words) -- $words (commandline --current-token --cut-at-cursor) 2>/dev/null </dev/null
end
complete --command tidegate --no-files --keep-order --arguments '(__tidegate_complete)'
