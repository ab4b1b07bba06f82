"use strict";

/** Bytes that `deflated` in templates.py wrote: zlib, in base64. */
async function inflated(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The value of JSON that was deflated. */
const inflatedJson = async (text) => JSON.parse(new TextDecoder().decode(await inflated(text)));
