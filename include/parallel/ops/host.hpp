// All operations on host::stream. Engines for matrix products are not included: they need
// libraries.
#pragma once

#include <parallel/ops/host/attention.hpp>
#include <parallel/ops/host/attention/rope.hpp>
#include <parallel/ops/host/attention/temperature.hpp>
#include <parallel/ops/host/embedding.hpp>
#include <parallel/ops/host/experts/grouped_matmul.hpp>
#include <parallel/ops/host/experts/routing.hpp>
#include <parallel/ops/host/loss/cross_entropy.hpp>
#include <parallel/ops/host/loss/sliced_cross_entropy.hpp>
#include <parallel/ops/host/matmul.hpp>
#include <parallel/ops/host/norm/norm.hpp>
#include <parallel/ops/host/pointwise/activation.hpp>
#include <parallel/ops/host/pointwise/bias.hpp>
#include <parallel/ops/host/pointwise/clip.hpp>
#include <parallel/ops/host/pointwise/dropout.hpp>
#include <parallel/ops/host/pointwise/elementwise.hpp>
#include <parallel/ops/host/pointwise/softcap.hpp>
#include <parallel/ops/host/reduce.hpp>
#include <parallel/ops/host/rows.hpp>
#include <parallel/ops/host/update/element_update.hpp>
#include <parallel/ops/host/update/step_results.hpp>
