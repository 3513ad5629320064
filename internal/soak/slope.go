package main

// slope is that of the line that fits the points best (least squares): by how much y grows while x grows by one. It is 0 where
// there is no line.
func slope(x, y []float64) float64 {
	n := float64(len(x))
	var meanX, meanY float64
	for i := range x {
		meanX += x[i] / n
		meanY += y[i] / n
	}
	var over, under float64
	for i := range x {
		over += (x[i] - meanX) * (y[i] - meanY)
		under += (x[i] - meanX) * (x[i] - meanX)
	}
	if under == 0 {
		return 0
	}
	return over / under
}
