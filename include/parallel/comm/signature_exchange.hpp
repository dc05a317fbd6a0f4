// signature_exchange: a rendezvous of all ranks as a function object that can be called later.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <parallel/comm/signature.hpp>

namespace parallel {

/// Called once, with this rank's signature; returns the signatures of all ranks, by rank. Throws at
/// the deadline, naming the missing ranks. (A move-only std::function whose header is not included
/// by every file that communicates.)
class signature_exchange {
 public:
  /// `meet(signature const&)` returns a vector of signatures.
  template <class Meet>
  requires requires(Meet meet, signature const& local) { std::vector<signature>(meet(local)); }
  signature_exchange(Meet meet)  // NOLINT(google-explicit-constructor): as std::function
      : meet_(std::make_unique<model<Meet>>(std::move(meet))) {}

  std::vector<signature> operator()(signature const& local) const { return meet_->meet(local); }

 private:
  struct interface {
    virtual ~interface() = default;
    virtual std::vector<signature> meet(signature const& local) = 0;
  };
  template <class Meet>
  struct model final : interface {
    explicit model(Meet f) : function(std::move(f)) {}
    std::vector<signature> meet(signature const& local) override { return function(local); }
    Meet function;
  };

  std::unique_ptr<interface> meet_;
};

}  // namespace parallel
