// All operations on host::stream. Engines for matrix products are not included: they need
// libraries.
#pragma once

#include <parallel/ops/host/activation.hpp>
#include <parallel/ops/host/adamw.hpp>
#include <parallel/ops/host/attention.hpp>
#include <parallel/ops/host/bias.hpp>
#include <parallel/ops/host/clip.hpp>
#include <parallel/ops/host/cross_entropy.hpp>
#include <parallel/ops/host/dropout.hpp>
#include <parallel/ops/host/elementwise.hpp>
#include <parallel/ops/host/embedding.hpp>
#include <parallel/ops/host/lion.hpp>
#include <parallel/ops/host/matmul.hpp>
#include <parallel/ops/host/norm.hpp>
#include <parallel/ops/host/norm_gradients.hpp>
#include <parallel/ops/host/reduce.hpp>
#include <parallel/ops/host/rope.hpp>
#include <parallel/ops/host/rows.hpp>
#include <parallel/ops/host/sliced_cross_entropy.hpp>
#include <parallel/ops/host/softcap.hpp>
#include <parallel/ops/host/step_results.hpp>
#include <parallel/ops/host/temperature.hpp>
