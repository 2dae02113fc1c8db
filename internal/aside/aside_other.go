//go:build !linux

package aside

func stepBack() {}
