// A model of one linear block, for the snippets that train it wrongly.
#pragma once

#include <string>
#include <vector>

#include <parallel/comm/single.hpp>
#include <parallel/device/host/device.hpp>
#include <parallel/layer/embedding.hpp>
#include <parallel/layer/linear.hpp>
#include <parallel/optim/decoupled_adamw.hpp>
#include <parallel/train/stepper.hpp>

namespace messages {

struct batch {
  parallel::vector_view<std::int32_t const> ids;
};

/// The model but for its types.
struct untyped {
  parallel::embedding<float> tokens;
  parallel::linear<float> body;

  std::size_t num_blocks() const { return 1; }
  parallel::linear<float> const& at(std::size_t) const { return body; }
  parallel::index rows(batch const& b) const { return b.ids.size(); }
  parallel::index sequence(batch const&) const { return 1; }
  parallel::index width() const { return 4; }
  void visit_units(auto&& visit) {
    using uses = std::vector<parallel::parameter_base<float>*>;
    visit(std::string("tokens"), tokens, std::vector<parallel::train::part>{-1}, uses{});
    visit(std::string("body"), body, std::vector<parallel::train::part>{0}, uses{});
  }
  auto embed(auto& c, batch const& b) const { return tokens.forward(c, b.ids); }
  void enter_backward(auto& c, batch const& b, parallel::matrix_view<float const> dy) const {
    tokens.backward_weight(c, b.ids, dy);
  }
  void head_loss(auto& c, batch const&, parallel::matrix_view<float const> x,
                 parallel::matrix_view<float> dx, parallel::train::statistics<double>& sums) const {
    parallel::ops::sum(c.stream, &sums.loss, x.span());
    if (dx.size() > 0) parallel::ops::fill(c.stream, dx.span(), 1.0F);
  }
};
struct model : untyped {
  using element = float;
  using microbatch = batch;
  using block = parallel::linear<float>;
};

using stepper = parallel::train::stepper<model, parallel::host::device, parallel::single,
                                         parallel::decoupled_adamw>;

}  // namespace messages
