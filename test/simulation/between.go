package simulation

// Synced has the handlers see all that the caches show, for the start of a controller that waits for that.
func (w *World) Synced() {
	for _, i := range w.sorted() {
		for len(i.pending) > 0 {
			i.notify()
		}
	}
}

// between has other things happen before a request of the controller is answered, if the world is Hasty. What the
// controller does then is the work of other queues than the one that waits.
func (w *World) between() {
	if w.Hasty == 0 || w.happens == nil || !w.OneIn(w.Hasty) {
		return
	}
	happens := w.happens
	w.happens = nil // nothing within that
	w.Fake.Unlock() // it is locked until it has the answer
	w.log("meanwhile")
	defer func() {
		w.log("the request arrives")
		w.Fake.Lock()
		w.happens = happens
	}()
	for range 1 + w.Rand.IntN(5) {
		happens()
	}
}
