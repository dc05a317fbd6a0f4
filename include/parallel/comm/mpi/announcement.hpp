// mpi::detail::announcement: what the ranks tell each other of a call, while it runs.
//
// Nobody waits for it before the call begins. Whoever waits in the call looks whether all have
// come, and compares; a call ends only when its ranks are known to agree.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/mpi/batch.hpp>

namespace parallel::mpi::detail {

/// What is wrong with the signatures of all ranks, by rank; empty: nothing.
using judgement = std::function<std::string(std::vector<signature> const&)>;

class announcement final : public seen_to {
 public:
  /// Tells the others of `mine`. Does not block.
  announcement(link& over, int tag, signature const& mine, judgement judge)
      : link_(over),
        mine_(mine),
        all_(static_cast<std::size_t>(over.size()), mine),
        judge_(std::move(judge)),
        messages_(over, over.calls(), tag, mine),
        limit_(over.options().deadline.get()) {
    for (int peer = 0; peer < over.size(); ++peer) {
      if (peer == over.rank()) continue;
      messages_.recv(&all_[static_cast<std::size_t>(peer)], sizeof mine_, peer);
      messages_.send(&mine_, sizeof mine_, peer);
    }
  }
  announcement(announcement const&) = delete;
  announcement& operator=(announcement const&) = delete;

  /// When all have come and do not agree, and at the deadline, aborts and throws the reason.
  void advance() override {
    if (judged_) return;
    while (messages_.advance()) {
    }
    if (messages_.done()) {
      judged_ = true;
      stop(judge_(all_));
    } else if (limit_.over()) {
      stop<timed_out>(overdue());
    }
  }

  /// Blocks until all have come.
  void wait() {
    backoff pace;
    for (advance(); !judged_; advance()) pace.pause();
  }

  /// What everybody said.
  [[nodiscard]] std::vector<signature> const& all() const { return all_; }

 private:
  template <class Error = error>
  void stop(std::string const& message) {
    if (message.empty()) return;
    link_.abort(message);
    throw Error(message);
  }

  /// Where the ranks are that came.
  [[nodiscard]] std::string overdue() const {
    auto const missing = messages_.missing();
    std::string others;
    for (int peer = 0; peer < link_.size(); ++peer)
      if (peer != link_.rank() &&
          !std::binary_search(missing.begin(), missing.end(), link_.world_rank(peer)))
        others += concat("; rank ", link_.world_rank(peer),
                         " came: ", describe(all_[static_cast<std::size_t>(peer)]));
    return messages_.overdue(others);
  }

  link& link_;
  signature const mine_;
  std::vector<signature> all_;
  judgement judge_;
  batch messages_;
  patience limit_;
  bool judged_ = false;
};

}  // namespace parallel::mpi::detail
