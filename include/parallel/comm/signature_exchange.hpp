// signature_exchange: one rendezvous of all ranks, as a value that can be called later.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <parallel/comm/signature.hpp>

namespace parallel {

/// Called once, with this rank's signature; returns those of all, by rank. Throws, naming the
/// missing ranks, when the deadline passes. (A std::function in all but name, whose header every
/// file that talks to other ranks would include.)
class signature_exchange {
 public:
  /// `meet(signature const&)` gives a vector of signatures.
  template <class Meet>
  requires requires(Meet meet, signature const& mine) { std::vector<signature>(meet(mine)); }
  signature_exchange(Meet meet)  // NOLINT(google-explicit-constructor): as std::function
      : meet_(std::make_unique<model<Meet>>(std::move(meet))) {}

  std::vector<signature> operator()(signature const& mine) const { return meet_->meet(mine); }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual std::vector<signature> meet(signature const& mine) = 0;
  };
  template <class Meet>
  struct model final : interface {
    explicit model(Meet f) : function(std::move(f)) {}
    std::vector<signature> meet(signature const& mine) override { return function(mine); }
    Meet function;
  };

  std::unique_ptr<interface> meet_;
};

}  // namespace parallel
