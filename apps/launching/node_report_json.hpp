// node_report_json: a node's report in the JSON form of the node's file.
#pragma once

#include <nlohmann/json.hpp>

#include "launching/node_report.hpp"

namespace apps {

/// The report as JSON.
[[nodiscard]] inline nlohmann::json json_of(node_report const& report) {
  return {{"node", report.node},
          {"nodes", report.nodes},
          {"ranks", report.ranks},
          {"restarts", report.restarts},
          {"spares", report.spares},
          {"least", report.min_nodes},
          {"multiple", report.node_multiple},
          {"host", report.host},
          {"program", report.program},
          {"program_hash", report.program_hash},
          {"arguments", report.arguments},
          {"files", report.files}};
}

/// Reads a report. `written` is the file's time by the folder's clock; with the time that the
/// node's own clock showed it gives the difference of the two clocks.
[[nodiscard]] inline node_report report_of(nlohmann::json const& text, double written) {
  node_report out;
  out.node = text.at("node");
  out.nodes = text.at("nodes");
  out.ranks = text.at("ranks");
  out.restarts = text.at("restarts");
  out.spares = text.at("spares");
  out.min_nodes = text.at("least");
  out.node_multiple = text.at("multiple");
  out.host = text.at("host");
  out.program = text.at("program");
  out.program_hash = text.at("program_hash");
  out.arguments = text.at("arguments");
  out.files = text.at("files");
  out.clock = text.at("time").get<double>() - written;
  return out;
}

}  // namespace apps
