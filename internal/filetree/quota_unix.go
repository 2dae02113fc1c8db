//go:build unix

package filetree

import "syscall"

const errQuota = syscall.EDQUOT
