# Completes the verbs and options of relayvm, as `relayvm help` lists them.
_relayvm() {
  local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]:-} words=
  if [ "$COMP_CWORD" = 1 ] || [ "$verb" = help ]; then
    words=$(relayvm help 2>/dev/null | sed -n 's/^  relayvm \([a-z]*\)  .*/\1/p')
  elif [ "${word#-}" != "$word" ]; then
    words=$(relayvm help "$verb" 2>/dev/null | sed -n 's/^  \(-[-a-zO0-9]*\).*/\1/p')
  fi
  # Without words: files (complete -o default).
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
}
complete -o default -F _relayvm relayvm
