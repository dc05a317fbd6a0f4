// joint_reading: ranks read something together, each its part, and learn what any of them found:
// that it is damaged, or that the system did not allow one to read, which is no damage.
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

/// The errors that ranks found while each read its part: damage, or that the system did not allow
/// it.
class joint_reading {
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

  /// Collective: the message of the first rank that found damage, "" where none did. Throws on
  /// every rank, in the same words, where one could not read.
  template <class Comm, class Exchange>
  [[nodiscard]] std::string damage_of_all(Comm& world, Exchange& exchanges) {
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
          "; this may pass, so the checkpoint was neither left out nor renamed: start again, or "
          "rename it yourself to go on from the one before";
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
