package main

import "fmt"

// unprinted says of the answer of a command that could not be printed, to a disk that is
// full, say, that what it tells of is done: else it would be done again.
func unprinted(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("everything was done, and this could not be printed: %w", err)
}
