"""The detector `playbook`: the rules of debugging guides as a decision list, with a cause for each."""
