package job

import (
	"hash/fnv"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/dump"
)

// maxName is the maximum length of the name of a Workload or PodGroup.
const maxName = validation.DNS1123SubdomainMaxLength

// workloadName returns the name of the Workload of a Job. It is the same for all attempts to
// create it, and differs for a recreated Job.
func workloadName(job *batchv1.Job) string {
	hash := nameHash(dump.ForHash(job.UID))
	return cut(job.Name, maxName-len(hash)-1) + "-" + hash
}

// podGroupName returns the name of the PodGroup made from a template of a Workload.
func podGroupName(workload, template string) string {
	hash := nameHash(workload + template)
	room := maxName - len(hash) - 2
	if len(workload)+len(template) > room {
		workload, template = share(workload, template, room)
	}
	return workload + "-" + template + "-" + hash
}

// share truncates two parts of a name to a common length. A part that needs no more than half
// of it is not truncated.
func share(workload, template string, room int) (string, string) {
	half := room / 2
	switch {
	case len(template) <= half:
		return cut(workload, room-len(template)), template
	case len(workload) <= half:
		return workload, cut(template, room-len(workload))
	}
	return cut(workload, room-half), cut(template, half)
}

func cut(name string, length int) string { return name[:min(len(name), length)] }

func nameHash(text string) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(text)) // writing to a hash never fails
	return rand.SafeEncodeString(strconv.FormatUint(uint64(hash.Sum32()), 10))
}
