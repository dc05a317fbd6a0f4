// mpi::detail::announcement: the signatures that the ranks of a call exchange while it runs.
//
// No rank waits for the signatures before the call begins. A rank that waits in the call polls for
// them meanwhile, and compares them when all have arrived. A call ends only after its ranks'
// signatures have been found to agree.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <parallel/comm/mpi/batch.hpp>

namespace parallel::mpi::detail {

/// Compares the signatures of all ranks, given in rank order. Returns the error, or an empty text.
using signature_check = std::function<std::string(std::vector<signature> const&)>;

class announcement final : public background_task {
 public:
  /// Sends `local` to the other ranks. Does not block.
  announcement(link& own_link, int tag, signature const& local, signature_check judge)
      : link_(own_link),
        local_(local),
        signatures_(static_cast<std::size_t>(own_link.size()), local),
        judge_(std::move(judge)),
        messages_(own_link, own_link.calls(), tag, local),
        limit_(own_link.options().deadline.get()) {
    for (int peer = 0; peer < own_link.size(); ++peer) {
      if (peer == own_link.rank()) continue;
      messages_.recv(&signatures_[static_cast<std::size_t>(peer)], sizeof local_, peer);
      messages_.send(&local_, sizeof local_, peer);
    }
  }
  announcement(announcement&&) = delete;

  /// Aborts and throws the reason if all signatures have arrived and do not agree, or if the
  /// deadline has passed.
  void advance() override {
    if (is_judged_) return;
    while (messages_.advance()) {
    }
    if (messages_.is_done()) {
      is_judged_ = true;
      stop(judge_(signatures_));
    } else if (limit_.is_over()) {
      stop<timed_out>(overdue());
    }
  }

  /// Blocks until all signatures have arrived.
  void wait() {
    backoff pace;
    for (advance(); !is_judged_; advance()) pace.pause();
  }

  /// The signatures of all ranks.
  [[nodiscard]] std::vector<signature> const& signatures() const { return signatures_; }

 private:
  template <class Error = error>
  void stop(std::string const& message) {
    if (message.empty()) return;
    link_.abort(message);
    throw Error(message);
  }

  /// The error at the deadline, with the calls of the ranks whose signatures have arrived.
  [[nodiscard]] std::string overdue() const {
    auto const missing = messages_.missing();
    std::string present_ranks;
    for (int peer = 0; peer < link_.size(); ++peer)
      if (peer != link_.rank() &&
          !std::binary_search(missing.begin(), missing.end(), link_.world_rank(peer)))
        present_ranks += concat("; rank ", link_.world_rank(peer),
                                " came: ", describe(signatures_[static_cast<std::size_t>(peer)]));
    return messages_.overdue(present_ranks);
  }

  link& link_;
  signature const local_;
  std::vector<signature> signatures_;
  signature_check judge_;
  batch messages_;
  patience limit_;
  bool is_judged_ = false;
};

}  // namespace parallel::mpi::detail
