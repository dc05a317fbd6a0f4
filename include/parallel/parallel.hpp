// The library of training parallelism in one header: ranks as threads, the CPU's device and its
// operations, layers, optimizers, and the step over every strategy. No third-party header.
//
// Not in it, since they need other libraries: checkpoints (parallel/checkpoint/stepper.hpp,
// component `checkpoint`), MPI (parallel/comm/mpi/, component `mpi`), GPUs (parallel/ops/cuda.hpp,
// component `cuda`), products by oneDNN or a BLAS (parallel/ops/host/, components `onednn` and
// `cblas`).
#pragma once

// ranks
#include <parallel/comm/any_communicator.hpp>
#include <parallel/comm/checked.hpp>
#include <parallel/comm/single.hpp>
#include <parallel/comm/threads/run.hpp>
#include <parallel/mesh/mesh.hpp>

// what computes
#include <parallel/device/host/device.hpp>
#include <parallel/device/transfer.hpp>
#include <parallel/ops/custom.hpp>
#include <parallel/ops/host.hpp>
#include <parallel/ops/meta.hpp>
#include <parallel/ops/reference.hpp>

// layers, and those that hold slices
#include <parallel/context_parallel/attention.hpp>
#include <parallel/layer/activation.hpp>
#include <parallel/layer/check.hpp>
#include <parallel/layer/dropout.hpp>
#include <parallel/layer/embedding.hpp>
#include <parallel/layer/feed_forward.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/layer/norm.hpp>
#include <parallel/layer/recompute.hpp>
#include <parallel/layer/sequential.hpp>
#include <parallel/tensor/embedding.hpp>
#include <parallel/tensor/head.hpp>
#include <parallel/tensor/layers.hpp>
#include <parallel/tensor/linear.hpp>
#include <parallel/tensor/slices.hpp>

// training
#include <parallel/data/share.hpp>
#include <parallel/optim/any_optimizer.hpp>
#include <parallel/optim/check_optimizer.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/optim/decoupled_lion.hpp>
#include <parallel/train/checks/check_model.hpp>
#include <parallel/train/learning_rate.hpp>
#include <parallel/train/stepper.hpp>
#include <parallel/train/train_batches.hpp>
#include <parallel/train/training_run.hpp>
#include <parallel/train/weights.hpp>
