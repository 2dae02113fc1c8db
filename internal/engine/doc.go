// Package engine is what the engines of the database tier have in common, apart from
// how they store.
package engine
