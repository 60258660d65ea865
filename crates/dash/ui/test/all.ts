// Every test of what neither draws nor needs a server.
import "./page";
import "./filters";
import "./format";
import "./graph";
import "./router";
import "./stream";
import "./terms";
import "./texts";
