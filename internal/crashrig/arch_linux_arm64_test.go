package crashrig

const sysUnlink = 1 << 32 // there is none: the store's files are removed by unlinkat, which is not followed
