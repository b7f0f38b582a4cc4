// Behavioural model of a single-port SRAM macro: one read or one write a clock, read data one clock
// later and held until the next read. Blocking assignment to the array keeps simulators from
// copying it; nothing else reads the array.
module sram_1rw #(
    parameter WIDTH = 512,
    parameter DEPTH = 2048,
    parameter ADDR_BITS = 11
) (
    input  wire                 clk,
    input  wire                 en,
    input  wire                 we,
    input  wire [ADDR_BITS-1:0] addr,
    input  wire [WIDTH-1:0]     d,
    output reg  [WIDTH-1:0]     q
);
  reg [WIDTH-1:0] mem[0:DEPTH-1];

  /* verilator lint_off BLKSEQ */
  always @(posedge clk)
    if (en) begin
      if (we) mem[addr] = d;
      else q <= mem[addr];
    end
  /* verilator lint_on BLKSEQ */
endmodule
