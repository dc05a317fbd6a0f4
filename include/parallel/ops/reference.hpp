// All operations on reference::stream: plain loops, the oracle of every other device.
#pragma once

#include <parallel/ops/reference/activation.hpp>
#include <parallel/ops/reference/adamw.hpp>
#include <parallel/ops/reference/attention.hpp>
#include <parallel/ops/reference/bias.hpp>
#include <parallel/ops/reference/clip.hpp>
#include <parallel/ops/reference/cross_entropy.hpp>
#include <parallel/ops/reference/dropout.hpp>
#include <parallel/ops/reference/elementwise.hpp>
#include <parallel/ops/reference/embedding.hpp>
#include <parallel/ops/reference/layer_norm.hpp>
#include <parallel/ops/reference/lion.hpp>
#include <parallel/ops/reference/matmul.hpp>
#include <parallel/ops/reference/reduce.hpp>
#include <parallel/ops/reference/rms_norm.hpp>
#include <parallel/ops/reference/rope.hpp>
#include <parallel/ops/reference/rows.hpp>
#include <parallel/ops/reference/sliced_cross_entropy.hpp>
#include <parallel/ops/reference/softcap.hpp>
#include <parallel/ops/reference/step_results.hpp>
#include <parallel/ops/reference/temperature.hpp>
