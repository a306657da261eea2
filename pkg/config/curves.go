package config

import "crypto/tls"

// curves are the key exchange mechanisms that serving.tls.curvePreferences may name.
func curves() []tls.CurveID {
	return []tls.CurveID{
		tls.CurveP256, tls.CurveP384, tls.CurveP521, tls.X25519,
		tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024,
	}
}

// CurveNames are the names by which a configuration calls key exchange mechanisms: those
// of Go's crypto/tls.
func CurveNames() []string {
	var names []string
	for _, id := range curves() {
		names = append(names, id.String())
	}
	return names
}

// CurveID is the key exchange mechanism of a name that a configuration uses.
func CurveID(name string) (id tls.CurveID, ok bool) {
	for _, id := range curves() {
		if id.String() == name {
			return id, true
		}
	}
	return 0, false
}
