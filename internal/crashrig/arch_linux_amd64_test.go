package crashrig

import "syscall"

const sysUnlink = syscall.SYS_UNLINK
