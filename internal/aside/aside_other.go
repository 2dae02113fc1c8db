//go:build !linux

package aside

import "errors"

func stepBack() (bool, error) { return false, errors.ErrUnsupported }
