"""An encoder of frames, and a decoder that attends to what it makes of them."""
