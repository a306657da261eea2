package resourcequota

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// amounts is what one object uses, by name. It is never changed.
type amounts []amount

type amount struct {
	name     corev1.ResourceName
	quantity resource.Quantity
}

// amountsOf turns a list into amounts, which share its quantities.
func amountsOf(list corev1.ResourceList) amounts {
	all := make(amounts, 0, len(list))
	for name, quantity := range list {
		all = append(all, amount{name, quantity})
	}
	slices.SortFunc(all, func(a, b amount) int { return strings.Compare(string(a.name), string(b.name)) })
	return all
}

func (a amounts) equal(b amounts) bool {
	return slices.EqualFunc(a, b, func(x, y amount) bool { return x.name == y.name && x.quantity.Cmp(y.quantity) == 0 })
}

// number returns a quantity that counts something.
func number(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// one is the quantity of a single object.
var one = number(1)

// plus adds a quantity to an entry of a list. The list gets a copy: quantities that do not fit
// into an integer are added in place.
func plus(list corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	sum, ok := list[name]
	if !ok {
		list[name] = quantity.DeepCopy()
		return
	}
	sum.Add(quantity)
	list[name] = sum
}

// minus subtracts a quantity from an entry of a list, and drops the entry if nothing is left.
func minus(list corev1.ResourceList, name corev1.ResourceName, quantity resource.Quantity) {
	sum := list[name]
	sum.Sub(quantity)
	if sum.IsZero() {
		delete(list, name)
		return
	}
	list[name] = sum
}

// same reports whether two lists have the same names and quantities, in whatever format. A list
// without entries equals none.
func same(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(x, y resource.Quantity) bool { return x.Cmp(y) == 0 })
}
