package nodeipam

import (
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
)

// maxIPv6Bits is how many bits number the blocks of an IPv6 range at most. There is no such
// limit for IPv4, whose largest range takes half a gigabyte if it is divided into addresses.
const maxIPv6Bits = 16

var (
	errTooBig = errors.New("New CIDR set failed; the node CIDR size is too big")
	errFull   = errors.New("CIDR allocation failed; there are no remaining CIDRs left to allocate in the accepted range")
)

// blockSet is a range of the cluster, divided into blocks of one size, with the number of holders
// of each block.
type blockSet struct {
	cluster netip.Prefix
	bits    int // of the network part of a block
	size    int // number of blocks
	used    int // number of blocks that are held
	next    int // where the search for a free block begins
	held    []uint64
	// others counts the holders of a block besides the first.
	others map[int]int
}

func newBlockSet(cluster netip.Prefix, networkBits int) (*blockSet, error) {
	cluster = cluster.Masked()
	numbering := networkBits - cluster.Bits()
	switch {
	case numbering < 0:
		return nil, fmt.Errorf("blocks of /%d are larger than the whole", networkBits)
	case networkBits > cluster.Addr().BitLen():
		return nil, fmt.Errorf("no block can have /%d", networkBits)
	case cluster.Addr().Is6() && numbering > maxIPv6Bits:
		return nil, errTooBig
	}
	size := 1 << numbering
	return &blockSet{
		cluster: cluster,
		bits:    networkBits,
		size:    size,
		held:    make([]uint64, (size+63)/64),
		others:  map[int]int{},
	}, nil
}

// block returns the range of a block.
func (s *blockSet) block(number int) netip.Prefix {
	address := s.cluster.Addr().AsSlice()
	for i := s.bits - 1; i >= s.cluster.Bits(); i-- {
		address[i/8] |= byte(number&1) << (7 - i%8)
		number >>= 1
	}
	first, _ := netip.AddrFromSlice(address)
	return netip.PrefixFrom(first, s.bits)
}

// number returns the number of the block that an address of the range of the cluster is in.
func (s *blockSet) number(address netip.Addr) int {
	n, octets := 0, address.AsSlice()
	for i := s.cluster.Bits(); i < s.bits; i++ {
		n = n<<1 | int(octets[i/8]>>(7-i%8)&1)
	}
	return n
}

// overlapping returns the first and the last block that a range overlaps; ok is false if there
// is none.
func (s *blockSet) overlapping(p netip.Prefix) (first, last int, ok bool) {
	switch {
	case !s.cluster.Overlaps(p):
		return 0, 0, false
	case p.Bits() <= s.cluster.Bits():
		return 0, s.size - 1, true
	}
	first = s.number(p.Masked().Addr())
	if p.Bits() >= s.bits {
		return first, first, true
	}
	return first, first + 1<<(s.bits-p.Bits()) - 1, true
}

// gives reports whether a range is one that the set could have given out.
func (s *blockSet) gives(p netip.Prefix) bool {
	return p.Bits() == s.bits && s.cluster.Contains(p.Addr()) && p == p.Masked()
}

// isFree reports whether nothing holds any of the blocks that a range overlaps.
func (s *blockSet) isFree(p netip.Prefix) bool {
	first, last, ok := s.overlapping(p)
	for n := first; ok && n <= last; n++ {
		if s.isHeld(n) {
			return false
		}
	}
	return true
}

// isFreeBut reports whether nothing but one holder of some ranges holds any of the blocks that a range overlaps.
func (s *blockSet) isFreeBut(held []netip.Prefix, p netip.Prefix) (free bool) {
	s.without(held, func() { free = s.isFree(p) })
	return free
}

func (s *blockSet) isHeld(n int) bool { return s.held[n/64]&(1<<(n%64)) != 0 }

// occupy adds a holder to every block that a range overlaps, and returns how many were free.
func (s *blockSet) occupy(p netip.Prefix) (taken int) {
	first, last, ok := s.overlapping(p)
	for n := first; ok && n <= last; n++ {
		if s.isHeld(n) {
			s.others[n]++
			continue
		}
		s.held[n/64] |= 1 << (n % 64)
		taken++
	}
	s.used += taken
	return taken
}

// release undoes one occupy or take, and returns how many blocks are free since.
func (s *blockSet) release(p netip.Prefix) (freed int) {
	first, last, ok := s.overlapping(p)
	for n := first; ok && n <= last; n++ {
		switch {
		case s.others[n] > 1:
			s.others[n]--
		case s.others[n] == 1:
			delete(s.others, n)
		case s.isHeld(n):
			s.held[n/64] &^= 1 << (n % 64)
			freed++
		}
	}
	s.used -= freed
	return freed
}

// without calls f as if one holder did not hold ranges that it does.
func (s *blockSet) without(held []netip.Prefix, f func()) {
	for _, p := range held {
		s.release(p)
	}
	f()
	for _, p := range held {
		s.occupy(p)
	}
}

// take holds the next free block; there must be one. passed is the number of held blocks that
// were skipped.
func (s *blockSet) take() (p netip.Prefix, passed int) {
	free := s.freeFrom(s.next)
	if free < 0 {
		free = s.freeFrom(0)
	}
	passed = (free - s.next + s.size) % s.size
	s.held[free/64] |= 1 << (free % 64)
	s.used++
	s.next = (free + 1) % s.size
	return s.block(free), passed
}

// freeFrom returns the first free block from a number on, negative if there is none.
func (s *blockSet) freeFrom(from int) int {
	for word := from / 64; word < len(s.held); word++ {
		free := ^s.held[word]
		if word == from/64 {
			free &= ^uint64(0) << (from % 64)
		}
		if n := word*64 + bits.TrailingZeros64(free); free != 0 && n < s.size {
			return n
		}
	}
	return -1
}
