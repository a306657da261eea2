// Package curves lists the key exchange mechanisms that serving.tls.curvePreferences may
// name. Their names are those of Go's crypto/tls.
package curves

import "crypto/tls"

func all() []tls.CurveID {
	return []tls.CurveID{
		tls.CurveP256, tls.CurveP384, tls.CurveP521, tls.X25519,
		tls.X25519MLKEM768, tls.SecP256r1MLKEM768, tls.SecP384r1MLKEM1024,
	}
}

// Names returns the names of all mechanisms.
func Names() []string {
	var names []string
	for _, id := range all() {
		names = append(names, id.String())
	}
	return names
}

// ID returns the mechanism of a name.
func ID(name string) (id tls.CurveID, ok bool) {
	for _, id := range all() {
		if id.String() == name {
			return id, true
		}
	}
	return 0, false
}
