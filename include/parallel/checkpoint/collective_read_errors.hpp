// collective_read_errors: the errors of ranks that each read a part of a checkpoint. All ranks
// learn whether one of them found damage, or was not able to read, which says nothing about damage.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <parallel/comm/texts.hpp>
#include <parallel/core/failures.hpp>
#include <parallel/core/reduction.hpp>

namespace parallel::checkpoint::detail {

/// The first error of each rank: damage, or a failure of the system to read (an I/O error, or a
/// permission that is missing).
class collective_read_errors {
 public:
  /// Runs work() and records its error.
  template <class F>
  void attempt(F work) {
    try {
      work();
    } catch (storage_error const& problem) {
      record(problem, storage);
    } catch (access_error const& problem) {
      record(problem, access);
    } catch (error const& problem) {
      record(problem, damage);
    }
  }

  [[nodiscard]] bool failed() const { return !own_message_.empty(); }

  /// Collective: the message of the first rank that found damage; "" if no rank did. If a rank was
  /// not able to read, throws the same error on every rank.
  template <class Comm, class Exchange>
  [[nodiscard]] std::string first_damage(Comm& world, Exchange& exchanges) {
    std::int64_t const none = world.size();
    std::array<std::int64_t, kinds> first;
    first.fill(none);
    if (failed()) first[kind_] = world.rank();
    world.all_reduce(exchanges, std::span<std::int64_t>(first), reduction::min).wait();
    for (std::size_t kind = 0; kind < kinds; ++kind) {
      if (first[kind] == none) continue;
      auto const text =
          concat("rank ", first[kind], ": ",
                 broadcast_text(world, exchanges, own_message_, static_cast<int>(first[kind])));
      constexpr auto* advice =
          "; this may be temporary, so the checkpoint was neither skipped nor renamed: start "
          "again, or rename it yourself to go on from the previous one";
      if (kind == storage) fail<storage_error>(text, advice);
      if (kind == access) fail<access_error>(text, advice);
      return text;
    }
    return {};
  }

 private:
  enum : std::size_t { storage, access, damage, kinds };

  void record(error const& problem, std::size_t kind) {
    if (failed()) return;
    own_message_ = problem.what();
    kind_ = kind;
  }

  std::string own_message_;
  std::size_t kind_ = damage;
};

}  // namespace parallel::checkpoint::detail
