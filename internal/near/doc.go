// Package near is the layer of one process in front of the home of a category: a
// bounded map that may forget, and that never shows what is out of date.
//
// Whoever loads a key joins the load that is under way, see [Layer.Join]. Whoever
// changes a key says so before, and says after it what came of it, see
// [Layer.Change]. In between, and after a message that another process has changed
// the key, no load may leave what it found: it may have looked before the change.
// So in one process a load that begins after a save was acknowledged finds that
// save, or a later one.
//
// What is held counts from the instant at which its load began, so that what is
// served was the truth at most a layer's TTL ago, whatever else fails.
package near
