// What one rank trains, saved as the library's checkpoint, read again, and as one number that is
// the same when every bit is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include <parallel/checkpoint/checkpoints.hpp>
#include <parallel/checkpoint/hash.hpp>
#include <parallel/checkpoint/reader.hpp>
#include <parallel/checkpoint/save.hpp>
#include <parallel/device/transfer.hpp>

namespace bench {

using parallel::index;
namespace checkpoint = parallel::checkpoint;

/// Calls f(name, shape, global, run, elements) for every block of every tensor and optimizer state:
/// `elements` are on the stepper's device.
template <class Stepper, class F>
void for_each_trained(Stepper& stepper, F&& f) {
  for (auto& unit : stepper.units())
    for (std::size_t s = 0; s < unit.memory.segments().size(); ++s) {
      auto const& memory = unit.memory.segments()[s];
      auto const& segment = unit.memory.layout().segments()[s];
      auto const visit = [&](std::string_view suffix, auto elements) {
        segment.for_each_piece(
            0, segment.size, [&](auto const& p, index first, index last, index at) {
              p.for_each_block(first, last, [&](index from, index count, index global, index run) {
                f(std::string(p.name) + std::string(suffix),
                  std::span<index const>(p.tensor_extents()), global, run,
                  elements.subspan(static_cast<std::size_t>(at + from - first),
                                   static_cast<std::size_t>(count)));
              });
            });
      };
      visit("", memory.master.span());
      for (std::size_t i = 0; i < memory.states.size(); ++i)
        visit("#" + std::string(stepper.state_names()[i]), memory.states[i].span());
    }
}

/// Saves root/ep0-ba{step}; returns when it is on disk.
template <class Stepper>
void save_training(Stepper& stepper, std::filesystem::path const& root, index step) {
  checkpoint::save_target const target{root, {0, step}, static_cast<std::uint64_t>(step)};
  checkpoint::prepare_save(target);
  checkpoint::rank_writer writer(target, 0);
  for_each_trained(stepper, [&](std::string const& name, std::span<index const> shape, index global,
                                index run, auto elements) {
    using element = typename decltype(elements)::element_type;
    parallel::read_on_host(stepper.device(), elements, [&](std::span<element const> here) {
      writer.add(name, shape, global, here, run);
    });
  });
  checkpoint::commit(target, {writer.finish()}, parallel::concat("{\"step\":", step, "}"));
}

/// Reads the latest checkpoint of `root`; returns how many steps had been done.
template <class Stepper>
[[nodiscard]] index load_training(Stepper& stepper, std::filesystem::path const& root) {
  auto const found = checkpoint::latest(root);
  parallel::require(found.folder.has_value(), root.string(), ": there is no checkpoint");
  checkpoint::checkpoint_reader const reader(*found.folder);
  reader.verify();
  for_each_trained(stepper, [&](std::string const& name, std::span<index const>, index global,
                                index run, auto elements) {
    parallel::write_from_host(stepper.device(), elements,
                              [&](auto here) { reader.read_block(name, global, run, here); });
  });
  // the values that the model reads are the master weights, rounded
  for (auto& unit : stepper.units())
    for (auto const& memory : unit.memory.segments()) {
      using element = std::remove_reference_t<decltype(memory.values.data()[0])>;
      using wide = std::remove_reference_t<decltype(memory.master.data()[0])>;
      if constexpr (!std::is_same_v<element, wide>)
        parallel::read_on_host(stepper.device(), memory.master.span(), [&](auto master) {
          parallel::write_from_host(stepper.device(), memory.values.span(), [&](auto values) {
            for (std::size_t i = 0; i < values.size(); ++i)
              values[i] = static_cast<element>(master[i]);
          });
        });
    }
  return reader.state().at("step").template get<index>();
}

/// A checksum of all weights and optimizer states.
template <class Stepper>
[[nodiscard]] std::uint64_t checksum_of_training(Stepper& stepper) {
  checkpoint::running_checksum sum;
  for_each_trained(
      stepper, [&](std::string const& name, std::span<index const>, index, index, auto elements) {
        sum.add(std::as_bytes(std::span(name)));
        parallel::read_on_host(stepper.device(), elements,
                               [&](auto here) { sum.add(std::as_bytes(here)); });
      });
  return sum.value();
}

}  // namespace bench
