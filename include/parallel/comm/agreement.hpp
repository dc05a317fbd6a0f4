// agreement: whether the ranks of a collective make the same call, and the sentence if they do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <parallel/comm/signature.hpp>
#include <parallel/core/error.hpp>

namespace parallel {

/// "rank 3" or "ranks 0, 2".
[[nodiscard]] inline std::string name_ranks(std::span<int const> ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) out += concat(i == 0 ? "" : ", ", ranks[i]);
  return out;
}

/// The sentence of a rank that has waited until the deadline for `missing`, ranks of the world:
/// "all_reduce(sum) of 5 f32 over tensor at step.cpp:31 (call 7): rank 0 waited 60 s for rank 2".
/// A backend throws it as `timed_out`, after `abort`.
[[nodiscard]] inline std::string overdue_message(signature const& call, int rank, double seconds,
                                                 std::span<int const> missing) {
  return concat(describe(call), " (call ", call.sequence, "): rank ", rank, " waited ", seconds,
                " s for ", name_ranks(missing));
}

/// Whether ranks may take part in one collective from different lines (a broadcast's root and the
/// other ranks often do).
enum class call_sites : std::uint8_t { may_differ, must_agree };

namespace detail {

/// One property that the signatures of a collective must agree in.
struct common_property {
  std::string_view word;
  bool (*agree)(signature const& a, signature const& b);
};
inline constexpr common_property common_properties[] = {
    {"operation", [](signature const& a, signature const& b) { return a.kind == b.kind; }},
    {"element type", [](signature const& a, signature const& b) { return a.type == b.type; }},
    {"count", [](signature const& a, signature const& b) { return a.count == b.count; }},
    {"reduction", [](signature const& a, signature const& b) { return a.combine == b.combine; }},
    {"parts of a group",
     [](signature const& a, signature const& b) {
       return a.kind != operation_kind::group || b.kind != operation_kind::group || a.tag == b.tag;
     }},
    {"root", [](signature const& a, signature const& b) { return a.peer == b.peer; }},
    {"sequence number",
     [](signature const& a, signature const& b) { return a.sequence == b.sequence; }},
    {"call site", [](signature const& a, signature const& b) {
       return a.file_hash == b.file_hash && a.line == b.line;
     }}};

[[nodiscard]] inline std::span<common_property const> properties(call_sites sites) {
  std::span const properties_in_order(common_properties);
  return sites == call_sites::must_agree
             ? properties_in_order
             : properties_in_order.first(properties_in_order.size() - 1);
}

[[nodiscard]] inline bool agree(signature const& a, signature const& b, call_sites sites) {
  for (auto const& property : properties(sites))
    if (!property.agree(a, b)) return false;
  return true;
}

}  // namespace detail

/// The sentence that says how the ranks' signatures of one collective differ; empty when they
/// agree. Rank r is called names[r], or r when there are no names.
[[nodiscard]] inline std::string disagreement(std::span<signature const> by_rank,
                                              call_sites sites = call_sites::may_differ,
                                              std::span<int const> names = {}) {
  std::string differing;
  for (auto const& property : detail::properties(sites))
    for (signature const& rank_signature : by_rank)
      if (!property.agree(rank_signature, by_rank.front())) {
        differing += concat(differing.empty() ? "" : ", ", property.word);
        break;
      }
  if (differing.empty()) return {};
  std::string message = concat("ranks disagree in ", differing, " (call ", by_rank.front().sequence,
                               " of this communicator): ");
  std::vector<char> is_described(by_rank.size());
  for (std::size_t first = 0; first < by_rank.size(); ++first) {
    if (is_described[first] != 0) continue;
    std::vector<int> party;  // the ranks that agree with `first`
    for (std::size_t rank = first; rank < by_rank.size(); ++rank) {
      if (!detail::agree(by_rank[first], by_rank[rank], sites)) continue;
      is_described[rank] = 1;
      party.push_back(names.empty() ? static_cast<int>(rank) : names[rank]);
    }
    message += concat(first == 0 ? "" : "; ", name_ranks(party), ": ", describe(by_rank[first]));
  }
  return message + "; all ranks must make the same calls in the same order";
}

/// The sentence for a message between `from` and `to` whose element type or count differs; empty
/// when they agree.
[[nodiscard]] inline std::string message_disagreement(signature const& sent, int from,
                                                      signature const& received, int to) {
  bool const types = sent.type != received.type;
  bool const counts = sent.count != received.count;
  if (!types && !counts) return {};
  auto const words = !counts ? "element type" : !types ? "count" : "element type, count";
  return concat("sender and receiver disagree in ", words, ": rank ", from, ": ", describe(sent),
                "; rank ", to, ": ", describe(received));
}

}  // namespace parallel
