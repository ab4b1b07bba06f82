"""How the detector `learned` is trained: examples, causes, held-out judgement."""
