// Builds the operators that the scheduler is tried beside. Nothing here is shipped.
module tutti.dev/operators

go 1.26.0

require (
	github.com/kubeflow/mpi-operator v0.8.2
	github.com/kubeflow/trainer/v2 v2.3.0
	github.com/kubeflow/training-operator v1.9.4
	sigs.k8s.io/controller-tools v0.21.0
	sigs.k8s.io/jobset v0.12.0
	sigs.k8s.io/kueue v0.19.2
	sigs.k8s.io/scheduler-plugins v0.35.4-devel
	volcano.sh/apis v1.14.0
)
