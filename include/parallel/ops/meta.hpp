// All operations on meta::stream: nothing is computed, floating-point operations are counted.
#pragma once

#include <parallel/ops/meta/activation.hpp>
#include <parallel/ops/meta/adamw.hpp>
#include <parallel/ops/meta/attention.hpp>
#include <parallel/ops/meta/bias.hpp>
#include <parallel/ops/meta/clip.hpp>
#include <parallel/ops/meta/cross_entropy.hpp>
#include <parallel/ops/meta/dropout.hpp>
#include <parallel/ops/meta/elementwise.hpp>
#include <parallel/ops/meta/embedding.hpp>
#include <parallel/ops/meta/layer_norm.hpp>
#include <parallel/ops/meta/lion.hpp>
#include <parallel/ops/meta/matmul.hpp>
#include <parallel/ops/meta/reduce.hpp>
#include <parallel/ops/meta/rms_norm.hpp>
#include <parallel/ops/meta/rope.hpp>
#include <parallel/ops/meta/rows.hpp>
#include <parallel/ops/meta/sliced_cross_entropy.hpp>
#include <parallel/ops/meta/softcap.hpp>
#include <parallel/ops/meta/step_results.hpp>
#include <parallel/ops/meta/temperature.hpp>
