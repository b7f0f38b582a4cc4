// Behavioural model of a two-port SRAM macro: one read and one write a clock, read data one clock
// later and held until the next read. A read of the row that is written in the same clock returns
// the old data. ZEROED rows are 0 at start, others unknown.
module sram_1r1w #(
    parameter WIDTH = 512,
    parameter DEPTH = 64,
    parameter ADDR_BITS = 6,
    parameter ZEROED = 0
) (
    input  wire                 clk,
    input  wire                 w_en,
    input  wire [ADDR_BITS-1:0] w_addr,
    input  wire [WIDTH-1:0]     w_data,
    input  wire                 r_en,
    input  wire [ADDR_BITS-1:0] r_addr,
    output reg  [WIDTH-1:0]     r_data
);
  reg [WIDTH-1:0] mem[0:DEPTH-1];

  integer row;
  initial if (ZEROED != 0) for (row = 0; row < DEPTH; row = row + 1) mem[row] = 0;

  /* verilator lint_off BLKSEQ */
  always @(posedge clk) begin
    if (r_en) r_data <= mem[r_addr];
    if (w_en) mem[w_addr] = w_data;
  end
  /* verilator lint_on BLKSEQ */
endmodule
