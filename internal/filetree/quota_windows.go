package filetree

import "golang.org/x/sys/windows"

const errQuota = windows.ERROR_DISK_FULL
