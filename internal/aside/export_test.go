package aside

// Chunk is how much a Writer hands on at once.
const Chunk = chunk
