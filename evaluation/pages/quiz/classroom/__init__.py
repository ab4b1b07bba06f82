"""The quiz for a class: collected answers, scores, and a page of the room."""
