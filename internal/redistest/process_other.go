//go:build !linux

package redistest

import (
	"os"
	"syscall"
)

func dieWithParent() *syscall.SysProcAttr { return nil }

func stopped(*os.Process) bool { return true }
