//go:build !linux

package crashtest

import "errors"

func mount(string, string) error { return errors.ErrUnsupported }

func unmount(string) error { return nil }
