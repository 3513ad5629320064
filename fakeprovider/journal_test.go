package fakeprovider_test

func serveForKill() {}
