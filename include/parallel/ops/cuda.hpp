// All operations on cuda::stream, for plain C++ compilers: declarations, linked with
// ParallelLM::kernels.
#pragma once

#include <parallel/ops/cuda/activation.hpp>
#include <parallel/ops/cuda/adamw.hpp>
#include <parallel/ops/cuda/attention.hpp>
#include <parallel/ops/cuda/bias.hpp>
#include <parallel/ops/cuda/clip.hpp>
#include <parallel/ops/cuda/cross_entropy.hpp>
#include <parallel/ops/cuda/dropout.hpp>
#include <parallel/ops/cuda/elementwise.hpp>
#include <parallel/ops/cuda/embedding.hpp>
#include <parallel/ops/cuda/layer_norm.hpp>
#include <parallel/ops/cuda/lion.hpp>
#include <parallel/ops/cuda/matmul.hpp>
#include <parallel/ops/cuda/reduce.hpp>
#include <parallel/ops/cuda/rms_norm.hpp>
#include <parallel/ops/cuda/rope.hpp>
#include <parallel/ops/cuda/rows.hpp>
#include <parallel/ops/cuda/sliced_cross_entropy.hpp>
#include <parallel/ops/cuda/softcap.hpp>
#include <parallel/ops/cuda/step_results.hpp>
#include <parallel/ops/cuda/temperature.hpp>
