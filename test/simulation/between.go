package simulation

// between lets other things happen before a request of the controller is answered, if the world is Hasty. Meanwhile the
// controller works on queues other than the one that waits.
func (w *World) between() {
	if w.Hasty == 0 || w.happens == nil || !w.OneIn(w.Hasty) {
		return
	}
	happens := w.happens
	w.happens = nil // none of it is interrupted in turn
	w.Fake.Unlock() // the fake client holds it until the request is answered
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
